"""The Kubernetes manifests of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagre.cli.deploy.documents import Document, documents
from eagre.cli.deploy.executors import (
    DRIVER_PORTS,
    Executors,
    driver_settings,
    role_documents,
)
from eagre.cli.deploy.image import APP_FOLDER, USER_ID

if TYPE_CHECKING:
    from eagre.cli.deploy.service import Service

Manifest = dict[str, Any]

DATA = "/data"
"""Where the volume is mounted: checkpoints, logs, state."""
SECRETS = "/etc/eagre/secret"
KAFKA_CONFIG = "client.properties"
TOKEN = "dashboard-token"  # noqa: S105  (the name of a key)
HEAD = """\
Written by `eagre deploy kubernetes`, for {file}. docs/how-to/deploy.md explains each choice.
Tests validate these manifests against the schemas of Kubernetes; no test applies them.
Apply: kubectl apply -f FILE. Drain and stop: kubectl scale deployment/{name} --replicas=0"""
EXECUTORS_HEAD = """
EXECUTORS ON KUBERNETES HAVE NOT BEEN RUN BY EAGRE'S TESTS. These settings are only validated;
Spark standalone is the cluster manager that is tested. Try them with your own load first."""
VOLUME = "Checkpoints. Deleting the claim (also by `kubectl delete -f`) deletes them."
DEPLOYMENT = """\
One pod, and Recreate: the next one starts after this one has drained. Never more replicas: two
drivers must not run on one checkpoint. After the first start add --resume: a start that finds no
checkpoint (a lost volume) then fails instead of beginning at the newest records."""
RESUME = """\
One pod, and Recreate: the next one starts after this one has drained. Never more replicas: two
drivers must not run on one checkpoint. --resume: remove it for the first start."""
SERVICE = {
    True: "The address of the driver for its executors, also before it is ready; and its metrics.",
    False: "The address of the dashboard and of /metrics, also while the pod is not ready.",
}
PATIENT = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6}
"""Probes of a pod whose JVM is starting on all of its cores."""


@dataclass(frozen=True)
class Pod:
    """What only Kubernetes needs to know of a service.

    Attributes:
        image: The image of the driver and of its executors.
        namespace: Where the objects are; None leaves it to ``kubectl``.
        create_namespace: Whether the namespace is one of the manifests.
        cpus: The CPUs that the driver's pod requests.
        storage: The size of its volume.
        storage_class: The class of the volume; None for the cluster's default.
        secret: A Secret with the Kafka client's properties and the dashboard's token.
        executors: The executors, or None to run in one pod.
    """

    image: str
    namespace: str | None = None
    create_namespace: bool = False
    cpus: int = 2
    storage: str = "10Gi"
    storage_class: str | None = None
    secret: str | None = None
    executors: Executors | None = None


def manifests(service: Service, pod: Pod) -> str:
    """Return the manifests as a stream of YAML documents."""
    head = HEAD.format(file=service.file, name=service.name)
    if pod.executors:
        head += EXECUTORS_HEAD
    return documents(head, _all(service, pod))


def _all(service: Service, pod: Pod) -> list[Document]:
    about = _metadata(service, pod)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pod.namespace}}
    return [
        *([Document(namespace)] if pod.create_namespace else []),
        *(role_documents(about) if pod.executors else []),
        Document(_volume(about, pod), VOLUME),
        Document(_service(about, service, pod), SERVICE[bool(pod.executors)]),
        Document(
            _deployment(about, service, pod), RESUME if service.options.resume else DEPLOYMENT
        ),
    ]


def _metadata(service: Service, pod: Pod) -> Manifest:
    place = {"namespace": pod.namespace} if pod.namespace else {}
    return {"name": service.name, **place, "labels": _labels(service)}


def _labels(service: Service) -> dict[str, str]:
    return {"app.kubernetes.io/name": service.name, "app.kubernetes.io/managed-by": "eagre"}


def _selector(service: Service) -> dict[str, str]:
    return {"app.kubernetes.io/name": service.name}


def _volume(about: Manifest, pod: Pod) -> Manifest:
    chosen = {"storageClassName": pod.storage_class} if pod.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": about,
        "spec": {
            "accessModes": ["ReadWriteMany" if pod.executors else "ReadWriteOnce"],
            **chosen,
            "resources": {"requests": {"storage": pod.storage}},
        },
    }


def _service(about: Manifest, service: Service, pod: Pod) -> Manifest:
    ports = {"dashboard": service.options.dashboard_port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _selector(service),
            "ports": [
                {"name": name, "port": port}
                for name, port in {**ports, **(DRIVER_PORTS if pod.executors else {})}.items()
            ],
        },
    }


def _deployment(about: Manifest, service: Service, pod: Pod) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": about,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _selector(service)},
            "template": {
                "metadata": {"labels": _labels(service)},
                "spec": _pod_spec(service, pod),
            },
        },
    }


def _pod_spec(service: Service, pod: Pod) -> Manifest:
    account = {"serviceAccountName": service.name} if pod.executors else {}
    return {
        **account,
        "automountServiceAccountToken": bool(pod.executors),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": service.options.stop_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(service, pod)],
        "volumes": _volumes(service, pod),
    }


def _container(service: Service, pod: Pod) -> Manifest:
    memory = f"{service.memory_mb}Mi"
    return {
        "name": "eagre",
        "image": pod.image,
        "args": arguments(service, pod),
        "workingDir": DATA,
        "env": _environment(pod),
        "ports": [{"name": "dashboard", "containerPort": service.options.dashboard_port}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "dashboard"}, **PATIENT},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "dashboard"}, **PATIENT},
        "resources": {
            "requests": {"cpu": str(pod.cpus), "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": DATA},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  (a volume of the pod)
            *([{"name": "secret", "mountPath": SECRETS, "readOnly": True}] if pod.secret else []),
        ],
    }


def arguments(service: Service, pod: Pod) -> list[str]:
    """Return the arguments of ``eagre``; Kubernetes replaces only variables of ours in them."""
    options = service.options
    stated = [_literal(word) for word in options.arguments()]
    settings = {**_cpu_settings(pod), **_executor_settings(service, pod)}
    ours = {key: value for key, value in settings.items() if key not in options.conf}
    confs = [f"--conf={key}={value}" for key, value in ours.items()]
    target = _literal(service.target(f"{APP_FOLDER}/{service.file}"))
    return ["run", target, *stated, "--dashboard-host=$(POD_IP)", *confs]


def _literal(word: str) -> str:
    """Return an argument in which Kubernetes replaces nothing."""
    return word.replace("$(", "$$(")


def _cpu_settings(pod: Pod) -> dict[str, str]:
    """Return what Spark and the JVM would derive from the cores of the node, by the same rules."""
    cores = pod.executors.count * pod.executors.cores if pod.executors else pod.cpus
    return {
        "spark.sql.shuffle.partitions": str(max(1, cores // 2)),
        "spark.default.parallelism": str(cores),
        "spark.driver.extraJavaOptions": f"-XX:ActiveProcessorCount={pod.cpus}",
    }


def _executor_settings(service: Service, pod: Pod) -> dict[str, str]:
    if not pod.executors:
        return {}
    secret = {f"spark.kubernetes.executor.secrets.{pod.secret}": SECRETS} if pod.secret else {}
    return {
        **driver_settings(service.name, pod.image, pod.executors, (service.name, DATA)),
        **secret,
    }


def _environment(pod: Pod) -> list[Manifest]:
    fields = {"POD_IP": "status.podIP"}
    if pod.executors:
        fields |= {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    values = {"HOME": DATA, "EAGRE_STATE": f"{DATA}/state"}
    if pod.secret:
        values["EAGRE_KAFKA_CONFIG"] = f"{SECRETS}/{KAFKA_CONFIG}"
    token = {"name": pod.secret, "key": TOKEN, "optional": True}
    return [
        *({"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in fields.items()),
        *({"name": name, "value": value} for name, value in values.items()),
        *(
            [{"name": "EAGRE_DASHBOARD_TOKEN", "valueFrom": {"secretKeyRef": token}}]
            if pod.secret
            else []
        ),
    ]


def _volumes(service: Service, pod: Pod) -> list[Manifest]:
    secret = {"name": "secret", "secret": {"secretName": pod.secret, "defaultMode": 0o440}}
    return [
        {"name": "data", "persistentVolumeClaim": {"claimName": service.name}},
        {"name": "tmp", "emptyDir": {}},
        *([secret] if pod.secret else []),
    ]
