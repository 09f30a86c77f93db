"""`python -m tilewright.driver.tvmc`."""

from tilewright.driver.tvmc.main import main

if __name__ == "__main__":
    main()
