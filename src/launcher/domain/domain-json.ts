import {
  type Domain,
  type DomainInterfaceStatus,
  domainName,
  type GuestOsInfo,
  type KubeVirtMetadata,
  noGuestOsInfo,
} from '../../api/index.ts';
import { emptyDomainSpec, parseDomainXml } from './parse.ts';
import type { StatusAndReason } from './status.ts';

/** What the launcher knows about its domain. */
export interface DomainParts {
  readonly namespace: string;
  readonly name: string;
  /** ObjectMeta.uid: notify events carry the VMI UID, GetDomain answers leave it out . */
  readonly uid?: string;
  /** Live XML; absent when libvirt cannot give it now (migration, domain gone): the spec is then empty. */
  readonly xml?: string;
  readonly state: StatusAndReason;
  readonly metadata: KubeVirtMetadata;
  readonly interfaces?: readonly DomainInterfaceStatus[] | null;
  readonly osInfo?: Partial<GuestOsInfo>;
  readonly fsFreezeStatus?: string;
  readonly guestPanicInfo?: Domain['Status']['GuestPanicInfo'];
  readonly panicCount?: number;
  /** RFC 3339; set when the domain is gone. */
  readonly deletionTimestamp?: string;
}

/**
 * The whole Domain JSON (`pkg/virt-launcher/virtwrap/api/schema.go`): every key is there, empty ones as null, "", 0 or false.
 * Throws BAD_XML.
 */
export function domainFromXml(parts: DomainParts): Domain {
  const { namespace, name } = parts;
  const spec = parts.xml === undefined ? emptyDomainSpec(domainName(namespace, name)) : parseDomainXml(parts.xml);
  const interfaces = parts.interfaces ?? [];
  return {
    kind: 'Domain',
    apiVersion: '1.2.2',
    ObjectMeta: {
      name,
      namespace,
      ...(parts.uid && { uid: parts.uid }),
      creationTimestamp: null,
      ...(parts.deletionTimestamp && { deletionTimestamp: parts.deletionTimestamp }),
    },
    Spec: { ...spec, Metadata: { KubeVirt: parts.metadata } },
    Status: {
      Status: parts.state.Status,
      Reason: parts.state.Reason,
      Interfaces: interfaces.length === 0 ? null : [...interfaces],
      OSInfo: { ...noGuestOsInfo, ...parts.osInfo },
      FSFreezeStatus: { Status: parts.fsFreezeStatus ?? '' },
      GuestPanicInfo: parts.guestPanicInfo ?? null,
      PanicCount: parts.panicCount ?? 0,
    },
  };
}
