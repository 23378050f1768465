"""`python -m localjudge` is the command `localjudge`."""

from localjudge.cli.main import main

if __name__ == "__main__":
    main()
