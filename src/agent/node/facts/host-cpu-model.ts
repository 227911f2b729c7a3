import { attribute, children, elementAt, LibvirtFileError, parseDocument, textOf } from '../libvirt-xml/index.ts';

/**
 * CPU model of a guest with `host-model` on this node, from libvirt's `virsh_domcapabilities.xml`. Empty: the
 * document names none. Undefined: it is no such document, which proves nothing.
 */
export function readHostModel(domainCapabilitiesXml: string): string | undefined {
  try {
    const cpu = elementAt(parseDocument(domainCapabilitiesXml, 'domainCapabilities'), 'cpu');
    if (cpu === undefined) return undefined;
    const hostModel = children(cpu, 'mode').find((mode) => attribute(mode, 'name') === 'host-model');
    return textOf(elementAt(hostModel, 'model'));
  } catch (error) {
    if (error instanceof LibvirtFileError) return undefined;
    throw error;
  }
}
