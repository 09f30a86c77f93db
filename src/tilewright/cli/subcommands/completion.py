"""`tilewright completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tilewright.cli import cli


@cli.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script that lets SHELL complete commands, options and file names.

    \b
    tilewright completion bash > ~/.local/share/bash-completion/completions/tilewright
    tilewright completion zsh > ~/.zfunc/_tilewright     # with fpath+=(~/.zfunc) before compinit in ~/.zshrc
    tilewright completion fish > ~/.config/fish/completions/tilewright.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    variables = {
        "complete_func": "_tilewright_completion",
        "complete_var": "_TILEWRIGHT_COMPLETE",
        "prog_name": "tilewright",
    }
    # `source` of click's class would ask for the version of a bash that need not be the one that reads this.
    click.echo(kind.source_template % variables)
