package v1beta1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is what virt-exportserver writes into an image of a template.
var GroupVersion = schema.GroupVersion{Group: "template.kubevirt.io", Version: "v1beta1"}
