"""How records leave a program: gathered into batches, numbered, sent, and answered for."""
