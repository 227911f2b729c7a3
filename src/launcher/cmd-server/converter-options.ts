import type { cmd } from '../../wire/index.ts';
import type { ConverterOptions } from '../domain/index.ts';

/** The agent's options (spec 20 §5.1) in the converter's words; empty wire values are left out. */
export function converterOptions(options: cmd.VirtualMachineOptions | undefined): ConverterOptions {
  if (!options) return {};
  const { VirtualMachineSMBios: smbios, clusterConfig } = options;
  return {
    ...(smbios && { smbios }),
    memBalloonStatsPeriodSeconds: options.MemBalloonStatsPeriod,
    preallocatedVolumes: options.PreallocatedVolumes,
    ...(clusterConfig && {
      clusterConfig: {
        freePageReportingDisabled: clusterConfig.FreePageReportingDisabled,
        bochsDisplayForEfiGuests: clusterConfig.BochsDisplayForEFIGuests,
        serialConsoleLogDisabled: clusterConfig.SerialConsoleLogDisabled,
      },
    }),
    interfaceDomainAttachment: options.interfaceDomainAttachment,
  };
}
