import { ipv4Bytes, ipv6Bytes, mappedIpv4 } from '../../base/index.ts';

/** What the pod's resolver uses, and the guest's is to use. */
export interface ResolvConf {
  readonly dns4: readonly string[];
  readonly dns6: readonly string[];
  readonly searchDomains: readonly string[];
}

/** Upstream's, for a pod that has none (`pkg/network/dns`). */
const defaultDns = '8.8.8.8';
const defaultSearchDomain = 'cluster.local';
/** The kubelet writes three. */
const maxServers = 16;
const maxDomains = 64;

export function parseResolvConf(text: string): ResolvConf {
  const lines = text.split('\n').map((line) => line.split(/\s+/).filter((word) => word !== ''));
  const servers = lines
    .filter(([key, , ...rest]) => key === 'nameserver' && rest.length === 0)
    .map(([, ip = '']) => ip);
  const addresses = servers.slice(0, maxServers).map(serverAddress);
  const dns4 = addresses.flatMap((found) => (found?.family === 'ipv4' ? [found.address] : []));
  const dns6 = addresses.flatMap((found) => (found?.family === 'ipv6' ? [found.address] : []));
  const domains = lines.filter(([key]) => key === 'search').flatMap(([, ...names]) => names);
  const searchDomains = domains.slice(0, maxDomains).map((name) => name.toLowerCase());
  return {
    dns4: dns4.length + dns6.length > 0 ? dns4 : [defaultDns],
    dns6,
    searchDomains: searchDomains.length > 0 ? searchDomains : [defaultSearchDomain],
  };
}

function serverAddress(text: string): { readonly family: 'ipv4' | 'ipv6'; readonly address: string } | undefined {
  if (ipv4Bytes(text)) return { family: 'ipv4', address: text };
  const bytes = ipv6Bytes(text);
  if (!bytes) return undefined;
  const mapped = mappedIpv4(bytes);
  return mapped ? { family: 'ipv4', address: mapped } : { family: 'ipv6', address: text };
}

/**
 * The search list with the subdomain of a headless service in front, whose records a pod's own list lacks
 * (kubernetes/kubernetes#48019), as upstream's `DomainNameWithSubdomain` adds it.
 */
export function withSubdomain(domains: readonly string[], subdomain: string): readonly string[] {
  if (subdomain === '') return domains;
  const service = longest(domains.filter((domain) => domain.includes('.svc.')));
  if (service === '' || service.startsWith(`${subdomain}.`)) return domains;
  return [`${subdomain}.${service}`, ...domains];
}

/** The most exact name is the guest's domain; of several the first. */
export function longest(domains: readonly string[]): string {
  return domains.reduce((found, domain) => (domain.length > found.length ? domain : found), '');
}
