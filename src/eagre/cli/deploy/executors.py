"""Executors on Kubernetes: Spark's settings, and what the driver may do in its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eagre.cli.deploy.documents import Document
from eagre.cli.deploy.service import memory_mb
from eagre.config import megabytes

MASTER = "k8s://https://kubernetes.default.svc"
DRIVER_PORTS = {"driver-rpc": 7078, "blockmanager": 7079}
ROLE = "What Spark's driver does in its namespace: its executors' pods, and their configuration."
RULES = {
    "pods": ["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
    "configmaps": ["get", "list", "watch", "create", "delete", "deletecollection"],
}


@dataclass(frozen=True)
class Executors:
    """The executors of a service: how many, and the task slots and the heap of each."""

    count: int
    cores: int
    heap: str


def driver_settings(
    name: str, image: str, executors: Executors, volume: tuple[str, str]
) -> dict[str, str]:
    """Return the settings of a driver in a pod, and of the executors that it creates.

    Args:
        name: The headless service of the driver.
        image: The image of the executors.
        executors: How many, and how large.
        volume: The claim of the checkpoints, and where it is mounted.
    """
    claim, path = volume
    data = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"
    overhead = memory_mb(executors.heap) - megabytes(executors.heap)
    return {
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.namespace": "$(POD_NAMESPACE)",
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.driver.host": f"{name}.$(POD_NAMESPACE).svc",
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104  (the name is that of a service)
        "spark.driver.port": str(DRIVER_PORTS["driver-rpc"]),
        "spark.driver.blockManager.port": str(DRIVER_PORTS["blockmanager"]),
        "spark.blockManager.port": str(DRIVER_PORTS["blockmanager"]),
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": executors.heap,
        "spark.executor.memoryOverhead": f"{overhead}m",
        "spark.dynamicAllocation.enabled": "false",
        f"{data}.options.claimName": claim,
        f"{data}.mount.path": path,
        f"{data}.mount.readOnly": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }


def role_documents(about: dict[str, Any]) -> list[Document]:
    """Return the service account of the driver and what it may do."""
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "Role",
        "metadata": about,
        "rules": [
            {"apiGroups": [""], "resources": [resource], "verbs": verbs}
            for resource, verbs in RULES.items()
        ],
    }
    account = {"kind": "ServiceAccount", "name": about["name"]}
    if "namespace" in about:
        account["namespace"] = about["namespace"]
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": about["name"]},
        "subjects": [account],
    }
    return [
        Document({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}),
        Document(role, ROLE),
        Document(binding),
    ]
