import type { Interface, Network } from '../../api/index.ts';
import type { ConverterContext, ConverterOptions } from './context.ts';
import { invalid, unsupported } from './errors.ts';

/** What of the context decides a network device. */
export type InterfaceContext = Pick<ConverterContext, 'network' | 'links' | 'options' | 'hasHookSidecars'>;

export interface NamedInterface {
  readonly iface: Interface;
  readonly network: Network;
  /** Where it is in the VMI, for messages. */
  readonly field: string;
}

/** `slirp`, `macvtap` and the first `passt` were bindings of the core once; their field is all that is left. */
const bindings = ['bridge', 'masquerade', 'sriov', 'passtBinding', 'binding', 'slirp', 'macvtap', 'passt'] as const;
/** A device of the machine, with `sriov`, is no network device of QEMU's; that of a `sidecar` is written by a container of the pod. */
export type Binding = 'bridge' | 'masquerade' | 'passtBinding' | 'binding' | 'sriov' | 'sidecar';

/** What to use instead of a binding that this launcher does not have. */
const instead = {
  slirp: 'use masquerade, which reaches out the same way',
  macvtap: 'use bridge on the same network',
  passt: 'use passtBinding or masquerade',
} as const;

/** The binding of an interface, which is masquerade when nothing is said. Throws `ConvertError`. */
export function bindingOf({ iface, field }: NamedInterface, context: InterfaceContext): Binding {
  const used = bindings.filter((name) => (iface as unknown as Record<string, unknown>)[name] !== undefined);
  if (used.length > 1) throw invalid(field, `has ${used.join(' and ')}; exactly one binding is possible`);
  const [binding = 'masquerade'] = used;
  switch (binding) {
    case 'masquerade':
    case 'bridge':
    case 'sriov':
      return binding;
    case 'passtBinding':
      if (context.network === 'tap') return binding;
      throw unsupported(`${field}.passtBinding`, 'use masquerade with user networking');
    case 'binding':
      return pluginBinding(iface, field, context);
    case 'slirp':
    case 'macvtap':
    case 'passt':
      throw unsupported(`${field}.${binding}`, instead[binding]);
  }
}

/** A plug-in without a tap adds its device by a hook sidecar, when the domain is defined. */
export function isWithoutTap({ binding, name }: Interface, options: ConverterOptions | undefined): boolean {
  return binding !== undefined && options?.interfaceDomainAttachment?.[name] !== 'tap';
}

function pluginBinding(iface: Interface, field: string, context: InterfaceContext): 'binding' | 'sidecar' {
  const isTap = !isWithoutTap(iface, context.options);
  if (isTap && context.network === 'tap') return 'binding';
  if (!isTap && context.hasHookSidecars) return 'sidecar';
  throw unsupported(
    `${field}.binding ${iface.binding?.name ?? ''}`,
    'use masquerade or bridge, or a network binding plug-in with domainAttachmentType tap or managedTap, or with a sidecarImage',
  );
}
