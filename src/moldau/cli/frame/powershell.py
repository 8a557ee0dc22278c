"""Completing words in PowerShell.

click has this since 8.5 only, and there it cuts the line as a POSIX shell would. PowerShell has
taken the line apart by its own rules already, so here the script hands over the words, and only
those before the cursor. A name that PowerShell would take for more than a word is put in quotes;
where nothing is offered, PowerShell offers files by itself.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

SCRIPT = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object {
            if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) {
                $_.Value
            } else {
                $_.Extent.Text
            }
        })
    $before = $env:%(complete_var)s, $env:COMP_WORDS, $env:COMP_CWORD
    try {
        $env:%(complete_var)s = 'powershell_complete'
        $env:COMP_WORDS = $words -join "`n"
        $env:COMP_CWORD = "$wordToComplete".Trim('"', "'")
        $offers = @(& %(prog_name)s 2>$null)
    } finally {
        $env:%(complete_var)s, $env:COMP_WORDS, $env:COMP_CWORD = $before
    }
    foreach ($offer in $offers) {
        $name, $about = $offer -split "`t", 2
        if (-not $name) { continue }
        if (-not $about) { $about = $name }
        $text = $name
        if ($name -notmatch '^[\\w./:=+-]+$') { $text = "'" + $name.Replace("'", "''") + "'" }
        [System.Management.Automation.CompletionResult]::new(
            $text, $name, 'ParameterValue', $about)
    }
}
"""


class PowerShellComplete(ShellComplete):
    """What PowerShell is told: a line for each offer, its help behind a tab."""

    name = "powershell"
    source_template = SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and that; it may be left out."""
        words = os.environ.get("COMP_WORDS", "").split("\n")
        return words[1:], os.environ.get("COMP_CWORD", "")

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line of an offer; an empty one for files."""
        if item.type != "plain":
            return ""
        return f"{item.value}\t{' '.join((item.help or '').split())}"


def register() -> None:
    """Have click know this shell."""
    add_completion_class(PowerShellComplete)
