import { checkFolderRules } from '../../fixtures/folder-rules.ts';

checkFolderRules({
  root: 'src/standalone',
  mayImport: {
    'agent-api': [],
    'data-volumes': ['disk-images'],
    'disk-images': [],
    'pod-network': [],
    'pod-runner': ['disk-images', 'storage'],
    storage: [],
    page: ['agent-api', 'timeline', 'waiting'],
    services: ['pod-network'],
    spdy: [],
    timeline: ['agent-api', 'pod-runner'],
    waiting: ['agent-api'],
    supervisor: ['agent-api', 'data-volumes', 'page', 'pod-network', 'pod-runner', 'services', 'spdy', 'storage'],
    cli: ['agent-api', 'disk-images', 'page', 'pod-network', 'pod-runner', 'supervisor', 'timeline', 'waiting'],
  },
  /** Errors, files and directories of the node, its key for guests and their ports, processes and their ports. */
  shared: [
    'errors.ts',
    'files.ts',
    'guest-dial.ts',
    'paths.ts',
    'process-identity.ts',
    'socket-tables.ts',
    'ssh-key.ts',
    'state-dir.ts',
  ],
});
