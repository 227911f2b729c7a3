// Upstream's virtctl, but for its commands of VM templates (not every module proxy has their modules) and the one that starts a container.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"kubevirt.io/client-go/kubecli"

	"kubevirt.io/kubevirt/pkg/virtctl/adm"
	"kubevirt.io/kubevirt/pkg/virtctl/clientconfig"
	"kubevirt.io/kubevirt/pkg/virtctl/configuration"
	"kubevirt.io/kubevirt/pkg/virtctl/console"
	"kubevirt.io/kubevirt/pkg/virtctl/create"
	"kubevirt.io/kubevirt/pkg/virtctl/credentials"
	"kubevirt.io/kubevirt/pkg/virtctl/expose"
	"kubevirt.io/kubevirt/pkg/virtctl/imageupload"
	"kubevirt.io/kubevirt/pkg/virtctl/memorydump"
	"kubevirt.io/kubevirt/pkg/virtctl/objectgraph"
	"kubevirt.io/kubevirt/pkg/virtctl/pause"
	"kubevirt.io/kubevirt/pkg/virtctl/portforward"
	"kubevirt.io/kubevirt/pkg/virtctl/reset"
	"kubevirt.io/kubevirt/pkg/virtctl/scp"
	"kubevirt.io/kubevirt/pkg/virtctl/softreboot"
	"kubevirt.io/kubevirt/pkg/virtctl/ssh"
	"kubevirt.io/kubevirt/pkg/virtctl/unpause"
	"kubevirt.io/kubevirt/pkg/virtctl/usbredir"
	"kubevirt.io/kubevirt/pkg/virtctl/version"
	"kubevirt.io/kubevirt/pkg/virtctl/vm"
	"kubevirt.io/kubevirt/pkg/virtctl/vmexport"
	"kubevirt.io/kubevirt/pkg/virtctl/vnc"
)

func main() {
	root := &cobra.Command{Use: "virtctl", SilenceUsage: true, SilenceErrors: true}
	for _, name := range []string{"ProgramName", "prepare"} {
		cobra.AddTemplateFunc(name, func(...string) string { return "virtctl" })
	}
	config := kubecli.DefaultClientConfig(root.PersistentFlags())
	root.SetContext(clientconfig.NewContext(context.Background(), config))
	root.AddCommand(
		configuration.NewListPermittedDevices(), adm.NewCommand(), create.NewCommand(), credentials.NewCommand(),
		console.NewCommand(), vnc.NewCommand(), usbredir.NewCommand(), scp.NewCommand(), ssh.NewCommand(),
		portforward.NewCommand(), expose.NewCommand(), imageupload.NewImageUploadCommand(),
		memorydump.NewMemoryDumpCommand(), objectgraph.NewCommand(), pause.NewCommand(), unpause.NewCommand(),
		reset.NewResetCommand(), softreboot.NewSoftRebootCommand(), version.VersionCommand(),
		vm.NewStartCommand(), vm.NewStopCommand(), vm.NewRestartCommand(), vm.NewMigrateCommand(),
		vm.NewMigrateCancelCommand(), vm.NewGuestOsInfoCommand(), vm.NewUserListCommand(), vm.NewFSListCommand(),
		vm.NewAddVolumeCommand(), vm.NewRemoveVolumeCommand(), vm.NewExpandCommand(), vm.NewEvacuateCancelCommand(),
		vmexport.NewVirtualMachineExportCommand(),
	)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
