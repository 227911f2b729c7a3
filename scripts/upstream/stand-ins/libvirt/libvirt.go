// Package libvirt has the names that what finds a guest's devices is compiled against: the real one needs libvirt's headers.
package libvirt

type DomainDeviceModifyFlags uint

const (
	DOMAIN_DEVICE_MODIFY_LIVE   DomainDeviceModifyFlags = 1
	DOMAIN_DEVICE_MODIFY_CONFIG DomainDeviceModifyFlags = 2
)
