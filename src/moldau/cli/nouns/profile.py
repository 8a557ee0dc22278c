"""`moldau profile`: named ways to reach clusters, kept in the user's folder."""

from __future__ import annotations

import click

from moldau.base.errors import UserError
from moldau.cli.frame.completion import complete_profiles
from moldau.cli.frame.connection import pairs
from moldau.cli.frame.output import FORMS, show
from moldau.cli.frame.profiles import load_profiles, profiles_file, save_profiles, shown
from moldau.cli.frame.report import Column, Report, View, listing
from moldau.cli.operations.connecting import SERVERS

output = click.option(
    "-o", "--output", type=click.Choice(FORMS), default="table", help="Output format."
)
named = click.argument("name", shell_complete=complete_profiles)

LIST_COLUMNS = (
    Column("name", "NAME"),
    Column("in_use", "IN USE"),
    Column("bootstrap_servers", "BOOTSTRAP SERVERS"),
)
SETTING_COLUMNS = (Column("setting", "SETTING"), Column("value", "VALUE"))


@click.group()
def profile() -> None:
    """Manage named connections to clusters.

    Every command uses the settings of the profile in use, unless an option overrides them.
    """


@profile.command()
@click.argument("name")
@click.option("-b", "--bootstrap-servers", metavar="HOST:PORT[,...]", help="Its brokers.")
@click.option(
    "-X", "settings", multiple=True, metavar="KEY=VALUE", help="Set one client setting; repeatable."
)
@click.option("--replace", is_flag=True, help="Replace an existing profile.")
def create(
    name: str, bootstrap_servers: str | None, settings: tuple[str, ...], replace: bool
) -> None:
    """Create a profile; the first one is in use at once."""
    given = pairs(settings)
    if bootstrap_servers is not None:
        given[SERVERS] = bootstrap_servers
    if SERVERS not in given:
        raise UserError("a profile needs its brokers: use -b HOST:PORT")
    profiles = load_profiles()
    if name in profiles.settings and not replace:
        raise UserError(f"profile {name!r} exists: use --replace to replace it")
    profiles.settings[name] = given
    profiles.current = profiles.current or name
    save_profiles(profiles)
    click.echo(f"profile {name} is in {profiles_file()}")


@profile.command()
@named
def use(name: str) -> None:
    """Use this profile from now on."""
    profiles = load_profiles()
    profiles.of(name)
    profiles.current = name
    save_profiles(profiles)


@profile.command("list")
@output
def list_(output: str) -> None:
    """List profiles."""
    profiles = load_profiles()
    rows = [
        {
            "name": name,
            "in_use": name == profiles.current,
            "bootstrap_servers": settings.get(SERVERS),
        }
        for name, settings in sorted(profiles.settings.items())
    ]
    show(listing(LIST_COLUMNS, rows), output)


@profile.command("show")
@click.argument("name", required=False, shell_complete=complete_profiles)
@output
def show_(name: str | None, output: str) -> None:
    """Show the settings of a profile, or of the one in use; secrets are hidden."""
    profiles = load_profiles()
    wanted = name or profiles.current
    if wanted is None:
        raise UserError("no profile is in use: name one")
    settings = shown(profiles.of(wanted))
    rows = [{"setting": key, "value": value} for key, value in sorted(settings.items())]
    data = {"name": wanted, "settings": settings}
    show(Report(data, View(SETTING_COLUMNS, rows), "setting"), output)


@profile.command()
@named
def delete(name: str) -> None:
    """Delete a profile."""
    profiles = load_profiles()
    profiles.of(name)
    del profiles.settings[name]
    if profiles.current == name:
        profiles.current = None
    save_profiles(profiles)
