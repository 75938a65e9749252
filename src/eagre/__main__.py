"""``python -m eagre``."""

from eagre.cli import main

if __name__ == "__main__":
    main()
