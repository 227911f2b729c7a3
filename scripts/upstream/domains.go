// Converts VMIs to domains as KubeVirt's virt-launcher does: cases as JSON on standard input; on standard output what virt-api makes of each VMI,
// and its domain or the error. Files of the launcher's pod are below `root`.
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
	cloudinit "kubevirt.io/kubevirt/pkg/cloud-init"
	containerdisk "kubevirt.io/kubevirt/pkg/container-disk"
	"kubevirt.io/kubevirt/pkg/defaults"
	drametadata "kubevirt.io/kubevirt/pkg/dra"
	ephemeraldisk "kubevirt.io/kubevirt/pkg/ephemeral-disk"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/ignition"
	"kubevirt.io/kubevirt/pkg/network/vmispec"
	"kubevirt.io/kubevirt/pkg/os/disk"
	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/util"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/dra"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/generic"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/gpu"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/sriov"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/efi"
)

type testCase struct {
	Vmi           v1.VirtualMachineInstance   `json:"vmi"`
	Configuration v1.KubeVirtConfiguration    `json:"configuration"`
	Options       cmdv1.VirtualMachineOptions `json:"options"`
	CPUSet        []int                       `json:"cpuSet"`
	BlockVolumes  []string                    `json:"blockVolumes"`
	Environment   map[string]string           `json:"environment"`
	NetworkInfo   string                      `json:"networkInfo"`
	Emulated      bool                        `json:"emulated"`
}

type input struct {
	Root  string     `json:"root"`
	Cases []testCase `json:"cases"`
	// No domains: their files are not there yet.
	OnlyDefaults bool `json:"onlyDefaults"`
}

type result struct {
	Vmi   *v1.VirtualMachineInstance `json:"vmi,omitempty"`
	Xml   string                     `json:"xml,omitempty"`
	Error string                     `json:"error,omitempty"`
}

// Where virt-launcher has these.
const ephemeralDir = "/var/run/kubevirt-ephemeral-disks"

type directIO struct {
	root    string
	checker converter.DirectIOChecker
}

func (d directIO) CheckBlockDevice(path string) (bool, error) {
	return d.checker.CheckBlockDevice(filepath.Join(d.root, path))
}

func (d directIO) CheckFile(path string) (bool, error) {
	return d.checker.CheckFile(filepath.Join(d.root, path))
}

func withDefaults(c *testCase) error {
	kv := &v1.KubeVirt{Spec: v1.KubeVirtSpec{Configuration: c.Configuration}, Status: v1.KubeVirtStatus{DefaultArchitecture: "amd64"}}
	config, _, _ := testutils.NewFakeClusterConfigUsingKVWithCPUArch(kv, "amd64")
	return defaults.SetDefaultVirtualMachineInstance(config, &c.Vmi)
}

// As generateConverterContext of virtwrap/manager.go, on a machine of the guest's architecture.
func contextOf(c *testCase, root string) (*types.ConverterContext, error) {
	vmi, options := &c.Vmi, &c.Options
	cluster := options.GetClusterConfig()
	context := &types.ConverterContext{
		Architecture:              arch.NewConverter(vmi.Spec.Architecture),
		VirtualMachine:            vmi,
		AllowEmulation:            c.Emulated,
		HypervisorDeviceAvailable: !c.Emulated,
		HostArchitecture:          vmi.Spec.Architecture,
		HypervisorName:            v1.KvmHypervisorName,
		CPUSet:                    c.CPUSet,
		IsBlockPVC:                map[string]bool{},
		IsBlockDV:                 map[string]bool{},
		UseVirtioTransitional:     is(vmi.Spec.Domain.Devices.UseVirtioTransitional),
		HotplugVolumes:            map[string]v1.VolumeStatus{},
		PermanentVolumes:          map[string]v1.VolumeStatus{},
		EphemeraldiskCreator:      ephemeraldisk.NewEphemeralDiskCreator(ephemeralDir + "/disk-data"),
		DisksInfo:                 map[string]*disk.DiskInfo{},
		UseLaunchSecuritySEV:      util.IsSEVVMI(vmi),
		UseLaunchSecurityTDX:      util.IsTDXVMI(vmi),
		UseLaunchSecurityPV:       util.IsSecureExecutionVMI(vmi),
		SMBios:                    options.VirtualMachineSMBios,
		Topology:                  options.Topology,
		MemBalloonStatsPeriod:     uint(options.MemBalloonStatsPeriod),
		VolumesDiscardIgnore:      options.PreallocatedVolumes,
		BochsForEFIGuests:         cluster.GetBochsDisplayForEFIGuests(),
		FreePageReporting: !cluster.GetFreePageReportingDisabled() && !vmi.IsHighPerformanceVMI() &&
			(vmi.Spec.Domain.Devices.AutoattachMemBalloon == nil || *vmi.Spec.Domain.Devices.AutoattachMemBalloon) &&
			vmi.Annotations[v1.FreePageReportingDisabledAnnotation] != "true",
		SerialConsoleLog:                !cluster.GetSerialConsoleLogDisabled(),
		DomainAttachmentByInterfaceName: options.GetInterfaceDomainAttachment(),
	}
	if log := vmi.Spec.Domain.Devices.LogSerialConsole; log != nil {
		context.SerialConsoleLog = *log
	}
	for _, status := range vmi.Status.VolumeStatus {
		if status.HotplugVolume != nil {
			context.HotplugVolumes[status.Name] = status
		} else {
			context.PermanentVolumes[status.Name] = status
		}
	}
	for _, name := range c.BlockVolumes {
		context.IsBlockPVC[name] = true
		context.IsBlockDV[name] = true
	}
	for index, volume := range vmi.Spec.Volumes {
		if volume.ContainerDisk == nil {
			continue
		}
		info, err := disk.GetDiskInfo(filepath.Join(root, containerdisk.GetDiskTargetPathFromLauncherView(index)))
		if err != nil {
			return nil, err
		}
		context.DisksInfo[volume.Name] = info
	}
	if err := addDevices(c, context, filepath.Join(root, drametadata.DefaultMetadataBasePath)); err != nil {
		return nil, err
	}
	return context, addFirmware(vmi, context, root)
}

// As generateConverterContext, too: what drivers told of claims is below `claims`.
func addDevices(c *testCase, context *types.ConverterContext, claims string) (err error) {
	for name, value := range c.Environment {
		os.Setenv(name, value)
	}
	devices := &c.Vmi.Spec.Domain.Devices
	if context.GenericHostDevices, err = generic.CreateHostDevices(devices.HostDevices); err != nil {
		return err
	}
	if context.GPUHostDevices, err = gpu.CreateHostDevices(devices.GPUs); err != nil {
		return err
	}
	hostDevices, err := dra.CreateDRAHostDevices(&c.Vmi, claims)
	if err != nil {
		return err
	}
	context.GenericHostDevices = append(context.GenericHostDevices, hostDevices...)
	gpus, err := dra.CreateDRAGPUHostDevices(&c.Vmi, claims)
	if err != nil {
		return err
	}
	context.GPUHostDevices = append(context.GPUHostDevices, gpus...)
	if context.SRIOVDevices, err = sriov.CreateDRAHostDevices(&c.Vmi, claims); err != nil {
		return err
	}
	networks := vmispec.IndexNetworkSpecByName(c.Vmi.Spec.Networks)
	interfaces := vmispec.FilterInterfacesSpec(devices.Interfaces, func(iface v1.Interface) bool {
		return iface.SRIOV != nil && iface.State != v1.InterfaceStateAbsent && !vmispec.IsDRANetwork(networks[iface.Name])
	})
	if len(interfaces) == 0 {
		return nil
	}
	pool, err := sriov.NewPCIAddressPoolWithNetworkStatus([]byte(c.NetworkInfo))
	if err != nil {
		return err
	}
	ofPlugIns, err := sriov.CreateHostDevicesFromIfacesAndPool(interfaces, pool)
	context.SRIOVDevices = append(ofPlugIns, context.SRIOVDevices...)
	return err
}

func addFirmware(vmi *v1.VirtualMachineInstance, context *types.ConverterContext, root string) error {
	if !vmi.IsBootloaderEFI() {
		return nil
	}
	secure := vmi.Spec.Domain.Firmware.Bootloader.EFI.SecureBoot
	isSecure := secure == nil || *secure
	kind := efi.None
	if util.IsSEVSNPVMI(vmi) {
		kind = efi.SNP
	} else if util.IsSEVVMI(vmi) {
		kind = efi.SEV
	} else if util.IsTDXVMI(vmi) {
		kind = efi.TDX
	}
	directory := "/usr/share/OVMF"
	if vmi.Spec.Architecture == "arm64" {
		directory = "/usr/share/AAVMF"
	}
	found := efi.DetectEFIEnvironment(vmi.Spec.Architecture, filepath.Join(root, directory))
	if !found.Bootable(isSecure, kind) {
		return fmt.Errorf("EFI OVMF roms missing")
	}
	context.EFIConfiguration = &types.EFIConfiguration{
		EFICode:      found.EFICode(isSecure, kind),
		EFIVars:      found.EFIVars(isSecure, kind),
		SecureLoader: isSecure && kind != efi.TDX,
	}
	return nil
}

func is(flag *bool) bool {
	return flag != nil && *flag
}

func domainOf(c *testCase, root string) (string, error) {
	context, err := contextOf(c, root)
	if err != nil {
		return "", err
	}
	domain := &api.Domain{}
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(&c.Vmi, domain, context); err != nil {
		return "", err
	}
	api.NewDefaulter(context.Architecture.GetArchitecture()).SetObjectDefaults_Domain(domain)
	for i := range domain.Spec.Devices.Disks {
		device := &domain.Spec.Devices.Disks[i]
		if err := converter.SetDriverCacheMode(device, directIO{root, converter.NewDirectIOChecker()}); err != nil {
			return "", err
		}
		converter.SetOptimalIOMode(device, func(path string) bool { return converter.IsPreAllocated(filepath.Join(root, path)) })
	}
	text, err := xml.MarshalIndent(domain.Spec, "", " ")
	return string(text), err
}

func convert(c *testCase, given *input) (r result) {
	defer func() {
		if p := recover(); p != nil {
			r.Error = fmt.Sprintf("panic: %v", p)
		}
	}()
	if err := withDefaults(c); err != nil {
		return result{Error: err.Error()}
	}
	r.Vmi = c.Vmi.DeepCopy()
	if given.OnlyDefaults {
		return
	}
	text, err := domainOf(c, given.Root)
	if err != nil {
		r.Error = err.Error()
	}
	r.Xml = text
	return
}

func main() {
	log.InitializeLogging("domains")
	cloudinit.SetLocalDirectoryOnly(ephemeralDir + "/cloud-init-data")
	containerdisk.SetLocalDirectoryOnly("/var/run/kubevirt/container-disks")
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	if given.Root != "" {
		if err := ignition.SetLocalDirectory(filepath.Join(given.Root, ephemeralDir, "ignition-data")); err != nil {
			panic(err)
		}
	}
	results := []result{}
	for i := range given.Cases {
		results = append(results, convert(&given.Cases[i], &given))
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
