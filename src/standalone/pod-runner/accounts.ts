/** User and group of QEMU and of non-root launchers inside every pod (upstream's pkg/util/util.go: NonRootUID). */
export const qemuUser = { name: 'qemu', uid: 107, gid: 107 };

/**
 * The pod's `/etc/passwd` and `/etc/group`: the host's, with the user `qemu` 107:107 in place of the user with that name or
 * number on the host, and as a member of the group that owns /dev/kvm.
 */
export function accountFiles(hostPasswd: string, hostGroup: string): { passwd: string; group: string } {
  const { name, uid, gid } = qemuUser;
  const others = (text: string, id: number) =>
    text.split('\n').filter((line) => {
      const [entry, , number] = line.split(':');
      return line !== '' && entry !== name && number !== String(id);
    });
  const passwd = [...others(hostPasswd, uid), `${name}:x:${uid}:${gid}:qemu:/:/usr/sbin/nologin`];
  const groups = others(hostGroup, gid).map((line) =>
    line.startsWith('kvm:') ? `${line}${line.endsWith(':') ? '' : ','}${name}` : line,
  );
  return { passwd: `${passwd.join('\n')}\n`, group: `${[...groups, `${name}:x:${gid}:`].join('\n')}\n` };
}
