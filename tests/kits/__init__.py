"""What several tests share: builders, scripted peers, oracles. No file here is a test."""
