import { WireError } from './errors.ts';

/** What both services of both sides speak (upstream: pkg/handler-launcher-com). */
export const supportedVersions: readonly number[] = [1];

/** The highest version that both know. Throws WireError NO_COMMON_VERSION. */
export function negotiateVersion(server: readonly number[], client: readonly number[] = supportedVersions): number {
  const common = server.filter((version) => client.includes(version));
  if (common.length === 0) {
    const lists = `client supports [${client.join(' ')}], server supports [${server.slice(0, 16).join(' ')}]`;
    throw new WireError('NO_COMMON_VERSION', `no compatible version found: ${lists}`);
  }
  return Math.max(...common);
}
