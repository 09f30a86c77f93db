"""What operators are declared with: the card, the arithmetic of type rules, and attributes that are expressions over sizes.

The operators themselves stand in `relay.op`, above type inference, which asks the cards.
"""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
