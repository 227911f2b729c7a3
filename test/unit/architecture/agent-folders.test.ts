import { checkFolderRules } from '../../fixtures/folder-rules.ts';

/** The wings: what the agent does for VMIs, for its node, and what others ask it. */
checkFolderRules({
  root: 'src/agent',
  mayImport: {
    'migration-proxy': [],
    'vmi/observe': ['vmi/host'],
    'vmi/decide': ['vmi/observe'],
    'vmi/execute': ['vmi/observe', 'vmi/decide'],
    'vmi/status': ['vmi/observe', 'vmi/decide', 'vmi/guest-agent'],
    'vmi/host': [],
    'vmi/guest-agent': [],
    'vmi/adapters': ['vmi/guest-agent'],
    'vmi/loop': ['vmi/observe', 'vmi/decide', 'vmi/execute', 'vmi/status', 'vmi/guest-agent'],
    'node/libvirt-xml': [],
    'node/facts': ['node/libvirt-xml'],
    'node/heartbeat': [],
    'node/labels': ['node/own-node.ts', 'node/libvirt-xml'],
    'node/devices': [],
    'node/ksm': [],
    'node/seccomp': [],
    'serve/explain': ['vmi/loop'],
    'serve/figures': [],
    'serve/metrics': ['serve/explain', 'serve/server', 'vmi/vmi-parts.ts'],
    'serve/page': [],
    'serve/rest': [],
    'serve/server': ['serve/rest', 'vmi/adapters'],
  },
  /** The outside as the VMI loop, the node's services and the rest see it; options. */
  shared: [
    'vmi/ports.ts',
    'node/ports.ts',
    'vmi/host/work/contract.ts',
    'migration-proxy/ports.ts',
    'options.ts',
    'flags.ts',
  ],
  sharedMayImport: ['vmi/host'],
});
