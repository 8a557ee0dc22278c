"""The APIs of the quorum, one after the other: the core's values as Kafka's messages, and back.

    elections      Vote, BeginQuorumEpoch, EndQuorumEpoch
    fetches        Fetch of the metadata log, FetchSnapshot
    voter_changes  AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter
    checks         what all messages have to keep to

A request that makes no sense is ApiError, and an answer that makes none PeerUnavailable. `messages`
beside this folder is what others call.
"""
