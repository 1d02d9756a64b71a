from .limits import ServiceLimits as ServiceLimits
from .server import Server as Server, bind as bind, build_server as build_server
