import { checkFolderRules } from '../../fixtures/folder-rules.ts';

checkFolderRules({
  root: 'src/launcher',
  mayImport: {
    domain: [],
    disks: ['domain'],
    notify: ['domain'],
    'guest-agent': ['domain'],
    daemon: ['domain'],
    network: ['domain'],
    'user-network': [],
    stats: ['domain', 'guest-agent'],
    'hot-plug': ['domain'],
    migration: ['domain', 'lifecycle'],
    resize: ['domain'],
    'memory-dump': [],
    backup: ['domain'],
    'backup-tunnel': ['nbd'],
    nbd: [],
    attestation: ['domain'],
    lifecycle: ['domain', 'disks', 'guest-agent', 'notify'],
    'cmd-server': ['domain', 'stats'],
    hooks: ['disks'],
    probe: [],
  },
  /** Errors, secrets in the pod, the options, the hypervisor as all of them see it. */
  shared: ['errors.ts', 'mounted-secret.ts', 'options.ts', 'ports.ts'],
  sharedMayImport: ['domain', 'guest-agent'],
});
