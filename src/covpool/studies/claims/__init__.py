"""The claims of the paper on frozen features: experiments, verdicts, advice."""

from covpool.studies.claims._advice import advise as advise
from covpool.studies.claims._advice import describe_images as describe_images
from covpool.studies.claims._arm import Arm as Arm
from covpool.studies.claims._claims import CLAIMS as CLAIMS
from covpool.studies.claims._missing import run_missing as run_missing
from covpool.studies.claims._page import held as held
from covpool.studies.claims._page import make_page as make_page
from covpool.studies.claims._page import make_sections as make_sections
from covpool.studies.claims._page import table as table
from covpool.studies.claims._page import update_page as update_page
from covpool.studies.claims._plots import plot_claims as plot_claims
from covpool.studies.claims._recorder import Recorder as Recorder
from covpool.studies.claims._records import ArmResult as ArmResult
from covpool.studies.claims._records import ClaimRow as ClaimRow
from covpool.studies.claims._records import Results as Results
from covpool.studies.claims._records import read_claims as read_claims
from covpool.studies.claims._records import records_folder as records_folder
from covpool.studies.claims._records import scoreboard as scoreboard
from covpool.studies.claims._run import plan as plan
from covpool.studies.claims._verdict import Claim as Claim
from covpool.studies.claims._verdict import Comparison as Comparison
from covpool.studies.claims._verdict import Finding as Finding
from covpool.studies.claims._verdict import Rule as Rule
from covpool.studies.claims._verdict import Verdict as Verdict
from covpool.studies.claims._verdict import pack as pack
from covpool.studies.claims._views import Subject as Subject
