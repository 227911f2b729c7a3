import type { VirtualMachineInstance } from '../../api/index.ts';
import { ConvertError, invalid, unsupported } from './errors.ts';
import type { NamedInterface } from './interfaces-binding.ts';
import { macOf } from './interfaces-tap.ts';
import type { XmlContent } from './xml.ts';

const logFile = '/var/run/kubevirt/passt.log';
/** Of the Istio proxy in the pod (istio.io, "Ports used by Istio"); passt must leave them to it. */
const istioPorts = [15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090];
const istioAnnotation = 'sidecar.istio.io/inject';

/** libvirt (11.1 and later) runs passt itself, on the pod's own device (upstream's `converter/network/passt.go`). */
export function passtBackend(vmi: VirtualMachineInstance, { iface, field }: NamedInterface): XmlContent {
  const device = vmi.status?.interfaces?.find(({ name }) => name === iface.name)?.podInterfaceName;
  if (!device) {
    throw new ConvertError(
      'MISSING_LINK',
      `${field}: status.interfaces does not name its device in the pod (podInterfaceName), which the controller writes before the start`,
    );
  }
  if (iface.dhcpOptions) throw unsupported(`${field}.dhcpOptions`, 'passt has its own DHCP server; remove them');
  const mac = macOf(iface, field);
  return {
    '@type': 'vhostuser',
    ...(mac && { mac: { '@address': mac } }),
    source: { '@dev': device },
    backend: { '@type': 'passt', '@logFile': logFile },
    portForward: portForwards(vmi, { iface, field }),
  };
}

/** Without a list of ports all are forwarded. */
function portForwards(
  vmi: VirtualMachineInstance,
  { iface, field }: Pick<NamedInterface, 'iface' | 'field'>,
): XmlContent[] {
  const hasIstio = vmi.metadata.annotations?.[istioAnnotation]?.toLowerCase() === 'true';
  const excluded = hasIstio ? istioPorts.map((port): XmlContent => ({ '@start': port, '@exclude': 'yes' })) : [];
  const ports = iface.ports ?? [];
  const tcp = [...excluded, ...portsOf('tcp')];
  const udp = portsOf('udp');
  if (tcp.length === 0 && udp.length === 0) return [{ '@proto': 'tcp' }, { '@proto': 'udp' }];
  return [
    ...(tcp.length > 0 ? [{ '@proto': 'tcp', range: tcp }] : []),
    ...(udp.length > 0 ? [{ '@proto': 'udp', range: udp }] : []),
  ];

  function portsOf(wanted: 'tcp' | 'udp'): XmlContent[] {
    return ports.flatMap(({ protocol, port }) => {
      const name = (protocol || 'tcp').toLowerCase();
      if (name !== 'tcp' && name !== 'udp') throw invalid(`${field}.ports`, `passt cannot forward ${protocol}`);
      if (!Number.isInteger(port) || port < 1 || port > 65_535) throw invalid(`${field}.ports`, `${port} is no port`);
      return name === wanted ? [{ '@start': port }] : [];
    });
  }
}
