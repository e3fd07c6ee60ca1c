"""The claims of the paper on trained networks: the trainings that decide them, their queue, and their records."""

from covpool.studies.trained._arm import TrainedArm as TrainedArm
from covpool.studies.trained._arm import in_minutes as in_minutes
from covpool.studies.trained._claims import PRE_TRAINED_ON as PRE_TRAINED_ON
from covpool.studies.trained._gradients import GRADIENTS as GRADIENTS
from covpool.studies.trained._gradients import measure_gradients as measure_gradients
from covpool.studies.trained._measured import SIZE as SIZE
from covpool.studies.trained._measured import TIME as TIME
from covpool.studies.trained._page import make_page as make_page
from covpool.studies.trained._queue import PATTERN as PATTERN
from covpool.studies.trained._queue import TrainingData as TrainingData
from covpool.studies.trained._queue import train_arms as train_arms
from covpool.studies.trained._scoreboard import ALL_CLAIMS as ALL_CLAIMS
from covpool.studies.trained._scoreboard import SEARCH_PATTERN as SEARCH_PATTERN
from covpool.studies.trained._scoreboard import TrainedRecords as TrainedRecords
from covpool.studies.trained._scoreboard import examine_claims as examine_claims
from covpool.studies.trained._scoreboard import read_records as read_records
from covpool.studies.trained._search import Search as Search
from covpool.studies.trained._search import held_out as held_out
from covpool.studies.trained._setting import SETTINGS as SETTINGS
from covpool.studies.trained._setting import Setting as Setting
from covpool.studies.trained._setting import find_setting as find_setting
