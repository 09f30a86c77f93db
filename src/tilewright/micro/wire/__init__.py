"""Messages over a line of bytes that loses and changes some: frames, and sessions of them."""
