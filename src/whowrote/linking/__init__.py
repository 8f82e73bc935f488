"""Which accounts belong to one person: candidate pairs, calibrated ratios, a controlled list."""

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.linking.accounts import Accounts as Accounts
    from whowrote.linking.discovery import Found as Found
    from whowrote.linking.discovery import find_links as find_links
    from whowrote.linking.linked import Group as Group
    from whowrote.linking.linked import Link as Link
    from whowrote.linking.linked import Links as Links
    from whowrote.linking.linker import link as link

__all__ = ["Accounts", "Found", "Group", "Link", "Links", "find_links", "link"]

__getattr__ = on_first_use(
    "whowrote.linking",
    {
        "Accounts": "whowrote.linking.accounts",
        **dict.fromkeys(("Found", "find_links"), "whowrote.linking.discovery"),
        **dict.fromkeys(("Group", "Link", "Links"), "whowrote.linking.linked"),
        "link": "whowrote.linking.linker",
    },
)
