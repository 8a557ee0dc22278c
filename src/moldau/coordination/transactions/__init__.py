"""The transaction coordinator: which producer may use a transactional id, and what it decided."""
