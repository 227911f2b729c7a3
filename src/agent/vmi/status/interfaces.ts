import { isIP } from 'node:net';
import {
  type Domain,
  type DomainInterface,
  type DomainInterfaceStatus,
  type Interface,
  isReportedByMultus,
  sriovInterfacesOf,
  type VirtualMachineInstance,
  type VmiInterfaceStatus,
} from '../../../api/index.ts';
import { bounds, clip } from './bounds.ts';

/** Interfaces that only the guest agent knows (bridges inside the guest, say) are listed up to this many. */
const maxUnmatched = 10;

/** Interface → addresses of its link in the pod, as the host work found them; the first one is the main one. */
export type PodIps = Readonly<Record<string, readonly string[]>>;

/** `status.interfaces`, built anew from domain, guest agent and what others wrote before (pkg/network/setup/netstat.go). */
export function projectInterfaces(
  vmi: VirtualMachineInstance,
  domain: Domain,
  podIps: PodIps = {},
): VmiInterfaceStatus[] {
  const before = vmi.status?.interfaces ?? [];
  const wanted = vmi.spec?.domain?.devices?.interfaces ?? [];
  const reports = (domain.Status.Interfaces ?? []).filter(({ InterfaceName }) => InterfaceName !== '');
  const found = firstOfEachName([...fromDomain(domain), ...fromHostDevices(domain, wanted)]);
  const unreached = new Set((domain.Spec?.Devices?.Interfaces ?? []).filter(isUserNetwork).map(nameOf));
  const known = found.map((entry) => {
    if (unreached.has(entry.name)) return withIps(withAgentReport(entry, reports, undefined), []);
    const ofPod = (Object.hasOwn(podIps, entry.name ?? '') && podIps[entry.name ?? '']) || [];
    const binding = wanted.find(({ name }) => name === entry.name);
    if (ofPod.length === 0) return withAgentReport(keepIps(entry, before), reports, binding);
    return withAgentReport(withIps(entry, ofPod), reports, binding, ofPod);
  });
  const listed = [...known, ...unmatched(found, reports)];
  return withMultus(podNetworkFirst(listed, vmi, before), before, wanted).map((entry) => keepPodName(entry, before));
}

/** QEMU's own network: what the guest calls its address is nobody's to reach it. */
const isUserNetwork = ({ Type: type }: DomainInterface) => type === 'user';
const nameOf = ({ Alias: alias }: DomainInterface) => alias?.Name;

/** A name belongs to one interface; a domain that says otherwise is not believed twice. */
function firstOfEachName(list: readonly VmiInterfaceStatus[]): VmiInterfaceStatus[] {
  return list.filter(({ name }, at) => name === undefined || list.findIndex((entry) => entry.name === name) === at);
}

/** An interface without alias or MAC is listed with what it has; upstream's process dies on it. */
function fromDomain(domain: Domain): VmiInterfaceStatus[] {
  return (domain.Spec?.Devices?.Interfaces ?? []).slice(0, bounds.interfaces).flatMap((entry) => {
    const name = entry.Alias?.Name;
    const mac = macOf(entry.MAC?.MAC);
    if (!name && !mac) return [];
    return {
      ...(name && { name }),
      ...(mac && { mac }),
      infoSource: 'domain',
      queueCount: entry.Driver?.Queues || 1,
      linkState: entry.LinkState?.State || 'up',
    };
  });
}

function fromHostDevices(domain: Domain, wanted: readonly Interface[]): VmiInterfaceStatus[] {
  return [...sriovInterfacesOf(domain)].slice(0, bounds.interfaces).map((name) => {
    const mac = wanted.find((entry) => entry.name === name)?.macAddress;
    return { name, ...(mac && { mac }), infoSource: 'domain' };
  });
}

/** Addresses that were known stay until the guest agent says otherwise. */
function keepIps(entry: VmiInterfaceStatus, before: readonly VmiInterfaceStatus[]): VmiInterfaceStatus {
  const old = before.find(({ name }) => name === entry.name && name !== undefined);
  // What an agent without this check wrote goes as well.
  const known = old?.ipAddresses?.filter(isAddress) ?? [];
  if (known.length === 0) return entry;
  const first = old?.ipAddress !== undefined && isAddress(old.ipAddress) ? old.ipAddress : known[0];
  return { ...entry, ipAddress: first ?? '', ipAddresses: known };
}

function withAgentReport(
  entry: VmiInterfaceStatus,
  reports: readonly DomainInterfaceStatus[],
  wanted: Interface | undefined,
  ofPod?: readonly string[],
): VmiInterfaceStatus {
  const report = reports.find(({ Mac }) => sameMac(Mac, entry.mac));
  if (!report) return entry;
  const isMasqueraded = wanted?.masquerade !== undefined;
  const ofGuest = agentIps(report, isMasqueraded);
  const reported = {
    ...entry,
    interfaceName: clip(report.InterfaceName, bounds.guestTextBytes),
    infoSource: 'domain, guest-agent',
  };
  if (ofPod) return withIps(reported, unlessGuestHasNone(ofPod, ofGuest));
  const ips = isMasqueraded ? byFamily(entry.ipAddresses ?? [], ofGuest) : ofGuest;
  return ips.length > 0 ? withIps(reported, ips) : reported;
}

function withIps(
  { ipAddress: _first, ipAddresses: _all, ...entry }: VmiInterfaceStatus,
  ips: readonly string[],
): VmiInterfaceStatus {
  return ips.length > 0 ? { ...entry, ipAddress: ips[0] ?? '', ipAddresses: [...ips] } : entry;
}

/** The pod's, by family, IPv4 first; but a guest that has no address of a family is not reached under the pod's. */
function unlessGuestHasNone(ofPod: readonly string[], ofGuest: readonly string[]): string[] {
  return [false, true].flatMap((six) => {
    const [own, guest] = [ofPod, ofGuest].map((ips) => ips.filter((ip) => isIpv6(ip) === six));
    return (own?.length === 0 || guest?.length === 0 ? guest : own) ?? [];
  });
}

const isIpv6 = (ip: string) => ip.includes(':');

/** Behind masquerading the pod's own addresses are those others reach; the guest's count only in a family without any. */
function byFamily(own: readonly string[], reported: readonly string[]): string[] {
  return [false, true].flatMap((six) => {
    const ofPod = own.filter((ip) => isIpv6(ip) === six);
    return ofPod.length > 0 ? ofPod : reported.filter((ip) => isIpv6(ip) === six);
  });
}

/** Of a network card, or of an InfiniBand port. */
const macPattern = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){14})?$/i;

/** A guest may call anything an address: programs and people take what stands in the status for one. */
function macOf(reported: string | undefined): string {
  return reported !== undefined && macPattern.test(reported) ? reported : '';
}

/** An IPv6 address with its zone; what is longer is none. */
const maxAddressLength = 64;
const linkLocal = /^fe[89ab]/i;

/** Only link-local addresses have a zone. */
function isAddress(text: string): boolean {
  if (text.length > maxAddressLength || isIP(text) === 0) return false;
  return !text.includes('%') || linkLocal.test(text);
}

/** IPv4 first. A guest behind masquerading has link-local addresses that no client can reach. */
function agentIps(report: DomainInterfaceStatus, isMasqueraded: boolean): string[] {
  const all = report.IPs ?? (report.Ip ? [report.Ip] : []);
  const usable = all
    .filter(isAddress)
    .filter((ip) => !isMasqueraded || !(ip.startsWith('169.254.') || linkLocal.test(ip)))
    .slice(0, bounds.addresses);
  return [...usable.filter((ip) => !isIpv6(ip)), ...usable.filter(isIpv6)];
}

function unmatched(
  found: readonly VmiInterfaceStatus[],
  reports: readonly DomainInterfaceStatus[],
): VmiInterfaceStatus[] {
  const others = reports.filter(({ Mac }) => !found.some(({ mac }) => sameMac(Mac, mac)));
  return others.slice(0, maxUnmatched).map((report) => {
    const ips = agentIps(report, false);
    return {
      mac: macOf(report.Mac),
      interfaceName: clip(report.InterfaceName, bounds.guestTextBytes),
      infoSource: 'guest-agent',
      ...(ips.length > 0 && { ipAddress: ips[0] ?? '', ipAddresses: ips }),
    };
  });
}

/** The CRD's IP column prints the first entry. */
function podNetworkFirst(
  list: readonly VmiInterfaceStatus[],
  vmi: VirtualMachineInstance,
  before: readonly VmiInterfaceStatus[],
): VmiInterfaceStatus[] {
  const podName = vmi.spec?.networks?.find(({ pod }) => pod)?.name;
  if (!podName) return [...list];
  const first = list.find(({ name }) => name === podName);
  const others = list.filter((entry) => entry !== first);
  if (first) return [first, ...others];
  return before.some(({ name }) => name === podName) ? [{ name: podName }, ...others] : others;
}

const multus = 'multus-status';

/** `multus-status` is the controller's word and must survive ours. */
function withMultus(
  list: readonly VmiInterfaceStatus[],
  before: readonly VmiInterfaceStatus[],
  wanted: readonly Interface[],
): VmiInterfaceStatus[] {
  const marked = new Set(before.filter(isReportedByMultus).map(({ name }) => name));
  const kept = list.map((entry) =>
    entry.name && marked.has(entry.name)
      ? { ...entry, infoSource: entry.infoSource ? `${entry.infoSource}, ${multus}` : multus }
      : entry,
  );
  const missing = wanted.filter(({ name }) => marked.has(name) && !list.some((entry) => entry.name === name));
  return [...kept, ...missing.map(({ name }) => ({ name, infoSource: multus }))];
}

function keepPodName(entry: VmiInterfaceStatus, before: readonly VmiInterfaceStatus[]): VmiInterfaceStatus {
  const old = entry.name ? before.find(({ name }) => name === entry.name)?.podInterfaceName : undefined;
  return old ? { ...entry, podInterfaceName: old } : entry;
}

function sameMac(left: string | undefined, right: string | undefined): boolean {
  return Boolean(left) && left?.toLowerCase() === right?.toLowerCase();
}
