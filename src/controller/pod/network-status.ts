import type { Pod } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';

const statusKey = 'k8s.v1.cni.cncf.io/network-status';
/** More than any pod has. */
const maxLinks = 256;
/** As the kernel takes it. */
const linkName = /^[^\s/:]{1,15}$/;

/** A link that the CNI plug-ins gave the pod. */
export interface PodLinkStatus {
  readonly link: string;
  /** Of the pod's main network. */
  readonly isMain: boolean;
  /** `namespace/name` of its NetworkAttachmentDefinition; undefined: not told. */
  readonly network?: string;
  readonly mac?: string;
  readonly mtu?: number;
  /** Which device of the machine it is, as the device plug-in says (k8snetworkplumbingwg/device-info-spec). */
  readonly deviceInfo?: Readonly<Record<string, unknown>>;
}

/** What Multus reports of a pod. Empty: it reports nothing, or there is none. Undefined: what it reports cannot be read. */
export function podNetworkStatus({ metadata }: Pod): readonly PodLinkStatus[] | undefined {
  const text = metadata.annotations?.[statusKey];
  if (!text) return [];
  let reported: unknown;
  try {
    reported = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(reported)) return undefined;
  return reported.slice(0, maxLinks).flatMap((each): PodLinkStatus[] => {
    if (!isRecord(each)) return [];
    const link = each.interface;
    if (typeof link !== 'string' || !linkName.test(link)) return [];
    const { name, mac, mtu, 'device-info': deviceInfo } = each;
    return [
      {
        ...{ link, isMain: each.default === true },
        ...(typeof name === 'string' && { network: name }),
        ...(typeof mac === 'string' && mac !== '' && { mac }),
        ...(Number.isInteger(mtu) && Number(mtu) > 0 && { mtu: Number(mtu) }),
        ...(isRecord(deviceInfo) && { deviceInfo }),
      },
    ];
  });
}
