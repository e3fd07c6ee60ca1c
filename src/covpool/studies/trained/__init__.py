"""The claims of the paper on trained networks: the trainings that decide them, their queue, and their records."""

from covpool.studies.trained._arm import TrainedArm as TrainedArm
from covpool.studies.trained._arm import in_minutes as in_minutes
from covpool.studies.trained._claims import PRE_TRAINED_ON as PRE_TRAINED_ON
from covpool.studies.trained._measured import SIZE as SIZE
from covpool.studies.trained._missing import Queue as Queue
from covpool.studies.trained._missing import run_claims as run_claims
from covpool.studies.trained._missing import run_search as run_search
from covpool.studies.trained._page import make_page as make_page
from covpool.studies.trained._queue import TrainingData as TrainingData
from covpool.studies.trained._scoreboard import ALL_CLAIMS as ALL_CLAIMS
from covpool.studies.trained._scoreboard import examine_claims as examine_claims
from covpool.studies.trained._scoreboard import read_records as read_records
from covpool.studies.trained._search import held_out as held_out
from covpool.studies.trained._setting import SETTINGS as SETTINGS
from covpool.studies.trained._setting import find_setting as find_setting
