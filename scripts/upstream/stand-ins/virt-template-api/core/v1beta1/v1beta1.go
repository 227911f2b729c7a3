// Package v1beta1 has the kind that an informer of virt-controller is for.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object {
	copied := *t
	return &copied
}
