"""The transaction coordinator: who may write under a transactional id, and what was decided."""
