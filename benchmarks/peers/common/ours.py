"""What the two adapters on Mutirão's tables share: ourselves, and the raw SQL beside us."""

from adapting import Peer

from mutirao.sql import migrations


class OnOurTables(Peer):
    history = True
    unsettled = "SELECT count(*) FROM (SELECT 1 FROM mutirao_live LIMIT 1) one"
    settled = "SELECT count(*) FROM mutirao_attempt WHERE outcome = 'succeeded'"

    def setup(self, url: str) -> None:
        migrations.upgrade(url)
