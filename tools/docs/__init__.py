"""What makes the documentation site: the hook of mkdocs, and the generator of the reference."""
