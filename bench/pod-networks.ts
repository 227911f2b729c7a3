import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { forEach } from './vmis.ts';

const run = promisify(execFile);
const parallel = 4;

/** Each pod has a network namespace of its own, so bursts may use the same addresses. */
export function podAddressOf(index: number): string {
  return `10.244.${Math.floor(index / 250)}.${2 + (index % 250)}`;
}

/** Names of VMIs whose launcher's pod is not set up for masquerading: tap device on its bridge, gateway's address, rules that lead to the guest and back. */
export async function withoutNetwork(names: readonly string[], pidOf: (name: string) => number): Promise<string[]> {
  const bare: string[] = [];
  await forEach(names, parallel, async (name) => {
    if (!(await isMasqueraded(pidOf(name)))) bare.push(name);
  });
  return bare;
}

interface Link {
  readonly ifname: string;
  readonly master?: string;
  readonly flags: readonly string[];
  readonly addr_info: readonly { readonly local?: string }[];
}

const bridge = 'k6t-eth0';
const gateway = '10.0.2.1';
const guest = '10.0.2.2';
const wantedRules = [
  `ip saddr ${guest} counter .* masquerade`,
  'iifname "eth0" .* jump KUBEVIRT_PREINBOUND',
  `oifname "${bridge}" .* jump KUBEVIRT_POSTINBOUND`,
  `dnat to ${guest}`,
  `snat to ${gateway}`,
].map((pattern) => new RegExp(pattern));

async function isMasqueraded(pid: number): Promise<boolean> {
  const inPod = async (...argv: string[]) => (await run('nsenter', [`--net=/proc/${pid}/ns/net`, ...argv])).stdout;
  try {
    const links: readonly Link[] = JSON.parse(await inPod('ip', '-json', 'address', 'show'));
    const rules = await inPod('nft', 'list', 'ruleset');
    const linkOf = (name: string) => links.find(({ ifname, flags }) => ifname === name && flags.includes('UP'));
    const hasGateway = linkOf(bridge)?.addr_info.some(({ local }) => local === gateway) ?? false;
    return linkOf('tap0')?.master === bridge && hasGateway && wantedRules.every((rule) => rule.test(rules));
  } catch {
    // Its launcher has ended.
    return false;
  }
}
