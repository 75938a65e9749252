"""``eagre deploy``: prints what a service manager or Kubernetes needs to run pipelines."""
