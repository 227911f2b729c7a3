// Package core has the names that informers of virt-controller are compiled against: neither virt-handler nor virt-launcher starts them.
package core

const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
