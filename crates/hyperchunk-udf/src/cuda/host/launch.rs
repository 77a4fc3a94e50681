//! Launches of kernels: `kernel<<<grid, block>>>(…)`, with deduction of template parameters.

use super::{Argument, Instance, Launch, MAX_LAUNCHES, Parser, Statement};
use crate::cuda::cursor::Cursor;
use crate::cuda::expression::{ADVICE, Scope, Variable, VariableKind};
use crate::cuda::kernel::{Base, Kernel, TemplateParameter, Type, parse_type};
use crate::cuda::lex::{Kind, Token};
use crate::cuda::value::Value;
use crate::error::{Result, fail};
use crate::escape::escape;

impl Parser<'_> {
    pub(super) fn launch(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        let line = cursor.line();
        let mut name = String::new();
        while let Some(word) = cursor.word() {
            name.push_str(word);
            if !cursor.take("::") {
                break;
            }
            name.push_str("::");
        }
        let Some(kernel) = self.kernels.iter().find(|k| k.name == name) else {
            let known: Vec<_> = self.kernels.iter().map(|k| escape(&k.name, 80)).collect();
            fail!(
                Syntax,
                "line {line}: there is no kernel {}; there {} {}",
                escape(&name, 80),
                if known.len() == 1 { "is" } else { "are" },
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )
        };
        let mut chosen = Vec::new();
        if !cursor.is("<<<") {
            cursor.need("<")?;
            while !cursor.take(">") {
                chosen.push(self.template_argument(cursor)?);
                if !cursor.is(">") {
                    cursor.need(",")?;
                }
            }
        }
        if !cursor.take("<<<") {
            fail!(Syntax, "line {line}: <<<grid, block>>> is missing")
        }
        let grid = self.shape(cursor)?;
        cursor.need(",")?;
        let block = self.shape(cursor)?;
        let mut shared = None;
        if cursor.take(",") {
            shared = Some(self.scope.expression(cursor)?);
            if cursor.take(",") {
                let stream = self.scope.expression(cursor)?;
                if stream.constant().and_then(Value::whole) != Some(0) {
                    fail!(Unsupported, "line {line}: the only stream is 0; {ADVICE}")
                }
            }
        }
        if !cursor.take(">>>") {
            fail!(Syntax, "line {line}: >>> is missing before {}", cursor.describe_next())
        }
        let given = self.arguments(cursor)?;
        cursor.need(";")?;
        if given.len() != kernel.parameters.len() {
            fail!(
                Syntax,
                "line {line}: {} takes {} arguments, got {}",
                escape(&name, 80),
                kernel.parameters.len(),
                given.len()
            )
        }
        let instance = instance(kernel, chosen, &given, line)?;
        let mut arguments = Vec::new();
        for ((argument, data), parameter) in given.into_iter().zip(&instance.parameters) {
            arguments.push(fit(argument, data.as_ref(), parameter, &name, line)?);
        }
        let known = self.host.instances.iter().position(|i| i.expression == instance.expression);
        let index = known.unwrap_or(self.host.instances.len());
        if known.is_none() {
            self.host.instances.push(instance);
        }
        let launches = self.host.statements.iter().filter(|s| matches!(s, Statement::Launch(_))).count();
        if launches >= MAX_LAUNCHES {
            fail!(Limit, "line {line}: more than {MAX_LAUNCHES} launches")
        }
        let launch = Launch { instance: index, grid, block, shared, arguments, line };
        self.host.statements.push(Statement::Launch(Box::new(launch)));
        Ok(())
    }

    fn template_argument(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<TemplateArgument> {
        let line = cursor.line();
        if let Some(token) = cursor.peek(0)
            && token.kind == Kind::Number
        {
            cursor.next();
            let value = Scope::default().expression(&mut Cursor::new(&[token]))?.constant();
            return match value.and_then(Value::whole) {
                Some(value) => Ok(TemplateArgument::Value(value)),
                None => fail!(Syntax, "line {line}: a template argument must be a type or an integer"),
            };
        }
        match parse_type(cursor)? {
            Type { base, pointer: false, .. } => Ok(TemplateArgument::Base(base)),
            _ => fail!(
                Unsupported,
                "line {line}: a pointer as a template argument is not translated; {ADVICE}"
            ),
        }
    }

    /// Parses the arguments in parentheses: numbers, and results of `lib.getData`.
    fn arguments(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Vec<(Argument, Option<Base>)>> {
        cursor.need("(")?;
        let mut list = Vec::new();
        while !cursor.take(")") {
            if list.len() >= 256 {
                fail!(Limit, "line {}: more than 256 arguments", cursor.line())
            }
            let data = match cursor.peek(0).filter(|t| t.kind == Kind::Word) {
                Some(Token { text: "lib", .. }) => {
                    let direct = cursor.peek(2).is_some_and(|t| t.text == "getData");
                    if direct { Some(self.data(cursor)?) } else { None }
                }
                Some(token) => match self.scope.find(token.text) {
                    _ if cursor.peek(1).is_some_and(|t| !matches!(t.text, "," | ")")) => None,
                    Some((_, Variable { kind: VariableKind::Data(name, base), .. })) => {
                        let data = (name.clone(), base.clone());
                        cursor.next();
                        Some(data)
                    }
                    _ => None,
                },
                None => None,
            };
            list.push(match data {
                Some((name, base)) => (Argument::Data(name), Some(base)),
                None => (Argument::Number(self.scope.expression(cursor)?), None),
            });
            if !cursor.is(")") {
                cursor.need(",")?;
            }
        }
        Ok(list)
    }
}

/// Explicit template argument of a launch.
enum TemplateArgument {
    Base(Base),
    Value(u64),
}

/// Returns the kernel's instance; template arguments that are not explicit are deduced from the arguments.
fn instance(
    kernel: &Kernel,
    chosen: Vec<TemplateArgument>,
    given: &[(Argument, Option<Base>)],
    line: u32,
) -> Result<Instance> {
    let name = escape(&kernel.name, 80);
    if chosen.len() > kernel.template.len() {
        fail!(Syntax, "line {line}: {name} has only {} template parameters", kernel.template.len())
    }
    let mut types: Vec<(&str, Base)> = Vec::new();
    let mut words = Vec::new();
    let mut chosen = chosen.into_iter();
    for parameter in &kernel.template {
        match (parameter, chosen.next()) {
            (TemplateParameter::Type(own), Some(TemplateArgument::Base(base))) => {
                words.push(base.spelling());
                types.push((own, base));
            }
            (TemplateParameter::Value(..), Some(TemplateArgument::Value(value))) => {
                words.push(value.to_string())
            }
            (TemplateParameter::Type(own), None) => {
                let base = kernel.parameters.iter().zip(given).find_map(|(parameter, (argument, data))| {
                    let is_own = parameter.datatype.base == Base::Named(own.clone());
                    match (is_own, parameter.datatype.pointer, argument, data) {
                        (true, true, _, Some(base)) => Some(base.clone()),
                        (true, false, Argument::Number(number), None) => Some(Base::Number(number.number)),
                        _ => None,
                    }
                });
                let Some(base) = base else {
                    fail!(Syntax, "line {line}: cannot deduce {own} of {name}; write {name}<float><<<…>>>(…)")
                };
                words.push(base.spelling());
                types.push((own, base));
            }
            _ => fail!(Syntax, "line {line}: write all template arguments of {name}"),
        }
    }
    let parameters = kernel.parameters.iter().map(|parameter| {
        let known = types.iter().find(|(own, _)| parameter.datatype.base == Base::Named((*own).to_owned()));
        let base = known.map_or_else(|| parameter.datatype.base.clone(), |(_, base)| base.clone());
        Type { base, ..parameter.datatype.clone() }
    });
    let suffix = if words.is_empty() { String::new() } else { format!("<{}>", words.join(", ")) };
    Ok(Instance {
        expression: format!("{}{suffix}", kernel.name),
        parameters: parameters.collect(),
        line: kernel.line,
    })
}

/// Converts an argument to the type of its parameter.
fn fit(
    argument: Argument,
    data: Option<&Base>,
    parameter: &Type,
    kernel: &str,
    line: u32,
) -> Result<Argument> {
    let kernel = escape(kernel, 80);
    match (argument, data, &parameter.base, parameter.pointer) {
        (argument @ Argument::Data(_), Some(base), wanted, true) if base == wanted => Ok(argument),
        (Argument::Data(name), Some(base), _, true) => fail!(
            Syntax,
            "line {line}: {:?} has elements of type {}, and {kernel} takes {} there",
            escape(&name, 80),
            base.spelling(),
            parameter.spelling()
        ),
        (Argument::Number(value), None, Base::Number(number), false) => {
            Ok(Argument::Number(value.into_number(*number)?))
        }
        (argument, ..) => fail!(
            Syntax,
            "line {line}: {kernel} expects {}, got {}; {ADVICE}",
            escape(&parameter.spelling(), 80),
            match argument {
                Argument::Data(_) => "the elements of a dataset",
                Argument::Number(_) => "a number",
            }
        ),
    }
}
