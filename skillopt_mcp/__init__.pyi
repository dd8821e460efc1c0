from skillopt_mcp.backends.base import Backend as Backend
from skillopt_mcp.backends.base import BackendFault as BackendFault
from skillopt_mcp.environments.base import Environment as Environment
from skillopt_mcp.environments.base import Rolled as Rolled
from skillopt_mcp.environments.base import RolloutFailed as RolloutFailed
from skillopt_mcp.environments.skillopt_adapter import SkillOptEnvironment as SkillOptEnvironment
from skillopt_mcp.errors import SkillOptError as SkillOptError
from skillopt_mcp.judges.specs import parse_judge as parse_judge
from skillopt_mcp.operations.training import Trained as Trained
from skillopt_mcp.operations.training import train as train
from skillopt_mcp.optimizer.config import Config as Config
from skillopt_mcp.optimizer.progress import Progress as Progress
from skillopt_mcp.records.budgets import Caps as Caps
from skillopt_mcp.records.calls import Call as Call
from skillopt_mcp.records.calls import Message as Message
from skillopt_mcp.records.calls import Question as Question
from skillopt_mcp.records.calls import Reply as Reply
from skillopt_mcp.records.calls import Rollout as Rollout
from skillopt_mcp.records.calls import Usage as Usage
from skillopt_mcp.records.skills import SkillFiles as SkillFiles
from skillopt_mcp.records.tasks import NewTask as NewTask
from skillopt_mcp.records.tasks import Task as Task

__version__: str
