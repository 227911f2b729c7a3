import type { Container } from '../../api/index.ts';

/** Where programs write that are not root's, whose own directories are. */
export function ownDirectories(nonRoot: boolean): NonNullable<Container['env']> {
  if (!nonRoot) return [];
  return [
    { name: 'XDG_CACHE_HOME', value: '/var/run/kubevirt-private' },
    { name: 'XDG_CONFIG_HOME', value: '/var/run/kubevirt-private' },
    { name: 'XDG_RUNTIME_DIR', value: '/var/run' },
  ];
}
