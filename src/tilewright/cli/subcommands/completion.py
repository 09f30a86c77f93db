"""`tilewright completion`: the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tilewright.cli import cli


@cli.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a script for SHELL that completes commands, options and file names.

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
    # `source` of click's class would check the version of the bash found here, which may be another than the reader's.
    click.echo(kind.source_template % variables)
