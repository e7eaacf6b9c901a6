/** Complaints about one node: the sentence goes on after its name. */
import type { WarpconvError } from '../errors';
import { invalidModel, title, unsupportedModel } from './complaints';
import type { GraphNode } from './graph';

/** The file breaks ONNX's rules. */
export function invalidNode(node: GraphNode, sentence: string): WarpconvError {
  return invalidModel(`${title(node)} ${sentence}`);
}

/** ONNX allows it, and this package cannot do it. */
export function unsupportedNode(node: GraphNode, sentence: string): WarpconvError {
  return unsupportedModel(`${title(node)} ${sentence}`);
}
