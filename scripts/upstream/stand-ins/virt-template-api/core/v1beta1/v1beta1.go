// Package v1beta1 has the kind that an informer of virt-controller is for, and what its controller of exports reads of it: none is ever made.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const ConditionReady = "Ready"

type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualMachineTemplateSpec
	Status VirtualMachineTemplateStatus
}

type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension
	Parameters     []Parameter
}

type VirtualMachineTemplateStatus struct{ Conditions []metav1.Condition }

type Parameter struct{ Name, Value string }

func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	copied := *t
	return &copied
}

func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t.DeepCopy() }
