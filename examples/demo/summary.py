"""The end of the story: what there is now, and whether every record is accounted for."""

from __future__ import annotations

from collections.abc import Sequence

from examples.demo.accounts import Account
from examples.demo.figures import Snapshot
from examples.demo.view import drawn
from rich.console import Console


def show_summary(console: Console, last: Snapshot, accounts: Sequence[Account]) -> bool:
    """Show it; tell whether all adds up."""
    console.print(drawn(last, "this is what there was at the end"))
    console.print("\nIs every record accounted for?", style="bold")
    for account in accounts:
        verdict = "[red]no [/]" if account.is_wrong else "[green]yes[/]"
        console.print(f"{verdict} {account}", highlight=False, soft_wrap=True)
    return not any(account.is_wrong for account in accounts)
