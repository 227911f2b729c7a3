/**
 * Owns: reading the XML of libvirt's capability files, bounded and strict: a document with the right root, or a coded error.
 * Must not know: which file it is from, what labels or facts follow from it.
 */
export {
  attribute,
  children,
  elementAt,
  maxDocumentBytes,
  parseDocument,
  textOf,
  type XmlElement,
} from './document.ts';
export { LibvirtFileError } from './errors.ts';
