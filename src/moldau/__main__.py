"""`python -m moldau`: the command, for whoever knows the interpreter and not where scripts are."""

from moldau.cli.main import main

if __name__ == "__main__":
    main()
