#!/bin/sh
# sh bench/build-upstream.sh DIRECTORY
# Builds upstream's virt-handler and virt-chroot from KubeVirt's Go module into DIRECTORY, for bench/upstream-agent.sh. Takes `go`, a C compiler and some
# minutes.
set -e
version=v1.9.0
mkdir -p "$1"
directory=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

go mod download "kubevirt.io/kubevirt@$version"
cp -r "$(go env GOMODCACHE)/kubevirt.io/kubevirt@$version" source
chmod -R u+w source

# Modules of VM templates, which not every proxy has: the agent never asks for a template, and these names are all that it is compiled with.
mkdir -p api/core/v1beta1 client/virttemplate engine
for module in api client-go engine; do
  printf 'module kubevirt.io/virt-template-%s\n\ngo 1.24\n' "$module" > "${module%-go}/go.mod"
done
echo 'package engine' > engine/engine.go
cat > api/core/core.go <<'GO'
package core

const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
GO
cat > api/core/v1beta1/template.go <<'GO'
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { copied := *t; return &copied }
GO
cat > client/virttemplate/client.go <<'GO'
package virttemplate

import "k8s.io/client-go/rest"

type Interface interface{ TemplateV1beta1() Templates }

type Templates interface{ RESTClient() rest.Interface }

func NewForConfig(*rest.Config) (Interface, error) { panic("there are no templates here") }
GO

cd source
rm -f go.work go.work.sum
export GOFLAGS="-mod=mod -buildvcs=false"
go mod edit \
  -replace "kubevirt.io/api=kubevirt.io/api@$version" \
  -replace "kubevirt.io/client-go=kubevirt.io/client-go@$version" \
  -replace kubevirt.io/virt-template-api=../api \
  -replace kubevirt.io/virt-template-client-go=../client \
  -replace kubevirt.io/virt-template-engine=../engine
# With cgo: the labeller reads KVM's header.
go build -o "$directory/virt-chroot" ./cmd/virt-chroot
go build -o "$directory/virt-handler" ./cmd/virt-handler
