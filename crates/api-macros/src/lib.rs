//! `#[shape]` declares an object of the API: one struct from which the server reads or writes it, the Rust client writes or reads it,
//! and the OpenAPI document describes it.

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Field, Ident, ItemStruct, LitStr, Meta, Path, Result, Token, Type, parse_macro_input,
};

/// Declares a shape.
///
/// `#[shape(request)]` is what a caller sends: the document forbids other members. `#[shape(answer)]` is what the server sends: it may
/// gain members. `any_of(a, b)` says that one of these members has to be there, `one_of(a, b)` that exactly one has, and `not_both(a, b)`
/// that one of them is left out; the reader does not check it. `private` keeps the members out of `Debug`.
///
/// `#[shape(query)]` is the query of a route: its members are parameters, and all of them are optional.
///
/// The doc comments are the descriptions of the document. A member of type `Option` may be left out, and `null` is refused. One of type
/// `Patch` may be left out, and `null` clears it. A member has these attributes:
///
/// - `#[is(KIND)]`: the values that it takes, an expression whose type implements `Kind`. Without it the type itself says so.
/// - `#[is(KIND, default)]` or `#[is(default)]`: a request may leave it out, an answer always has it.
/// - `#[is(flat)]`: the members of another shape, in the place of this one.
#[proc_macro_attribute]
pub fn shape(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as ItemStruct);
    let mut use_of = ShapeUse::default();
    let parser = syn::meta::parser(|meta| use_of.read(&meta));
    parse_macro_input!(arguments with parser);
    let expanded = if use_of.is_query { expand_query(&mut item) } else { expand(&use_of, &mut item) };
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Rules about members together, and their keywords in the document.
const RULES: [(&str, &str); 3] = [("any_of", "anyOf"), ("one_of", "oneOf"), ("not_both", "not")];

/// What the attribute of the struct says.
#[derive(Default)]
struct ShapeUse {
    is_request: bool,
    is_query: bool,
    is_private: bool,
    /// What the document says of members together: a keyword and their names.
    rules: Vec<(&'static str, Vec<String>)>,
}

impl ShapeUse {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("request") {
            self.is_request = true;
        } else if meta.path.is_ident("query") {
            self.is_query = true;
        } else if meta.path.is_ident("private") {
            self.is_private = true;
        } else if let Some((_, keyword)) = RULES.iter().find(|(rule, _)| meta.path.is_ident(rule)) {
            let mut names = Vec::new();
            meta.parse_nested_meta(|name| {
                names.push(name.path.require_ident()?.to_string());
                Ok(())
            })?;
            self.rules.push((keyword, names));
        } else if !meta.path.is_ident("answer") {
            let expected =
                "expected `request`, `answer`, `query`, `private`, `any_of(…)`, `one_of(…)` or `not_both(…)`";
            return Err(meta.error(expected));
        }
        Ok(())
    }
}

/// Whether a member is there.
#[derive(Clone, Copy, PartialEq)]
enum Presence {
    Always,
    /// `Option`
    Optional,
    /// `Patch`
    Patch,
}

/// One member of a shape.
struct Member {
    name: Ident,
    presence: Presence,
    has_default: bool,
    is_flat: bool,
    /// The type, without `Option` or `Patch`.
    inner: Type,
    kind: Tokens,
    description: String,
}

fn expand(use_of: &ShapeUse, item: &mut ItemStruct) -> Result<Tokens> {
    let members = item.fields.iter_mut().map(member).collect::<Result<Vec<_>>>()?;
    for (field, member) in item.fields.iter_mut().zip(&members) {
        field.attrs.extend(serde_attributes(&item.ident, member));
    }
    let (shape, name, description) = (item.ident.clone(), item.ident.to_string(), description(&item.attrs));
    let generics = item.generics.clone();
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let helpers = members.iter().filter(|member| !member.is_flat).map(helpers);
    let listed = members.iter().map(listed);
    let ShapeUse { is_request, is_private, rules, .. } = use_of;
    let rules = rules.iter().map(|(keyword, names)| quote!((#keyword, &[#(#names),*])));
    let debug = if *is_private {
        quote! {
            impl #impl_generics ::std::fmt::Debug for #shape #type_generics #bounds {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.debug_struct(#name).finish_non_exhaustive()
                }
            }
        }
    } else {
        item.attrs.push(syn::parse_quote!(#[derive(Debug)]));
        Tokens::new()
    };
    Ok(quote! {
        #[derive(Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #item

        #debug

        impl #impl_generics #shape #type_generics #bounds {
            #(#helpers)*
        }

        impl #impl_generics crate::field::ObjectShape for #shape #type_generics #bounds {
            const NAME: &'static str = #name;

            fn members(part: crate::field::Part) -> Vec<crate::field::MemberSchema> {
                let mut members = Vec::new();
                #(#listed)*
                members
            }

            fn schema() -> ::serde_json::Value {
                crate::field::object_schema::<Self>(#description, #is_request, &[#(#rules),*])
            }
        }
    })
}

fn expand_query(item: &mut ItemStruct) -> Result<Tokens> {
    let members = item.fields.iter_mut().map(member).collect::<Result<Vec<_>>>()?;
    let shape = &item.ident;
    let texts = members.iter().map(Member::text);
    let (mut set, mut given, mut parameters) = (Vec::new(), Vec::new(), Vec::new());
    for (place, member) in members.iter().enumerate() {
        let Member { name, kind, inner, description, .. } = member;
        if member.presence != Presence::Optional {
            return Err(syn::Error::new(name.span(), "a parameter of a query is an `Option`"));
        }
        let text = member.text();
        set.push(quote!(#place => self.#name = Some(crate::field::of_text::<#inner, _>(&#kind, text)?),));
        given.push(quote! {
            if let Some(value) = &self.#name {
                given.push((#text, crate::field::to_text::<#inner, _>(&#kind, value)));
            }
        });
        parameters.push(quote!((#text, crate::field::Kind::<#inner>::schema(&#kind, #description))));
    }
    Ok(quote! {
        #[derive(Clone, Debug, Default, PartialEq)]
        #item

        impl crate::field::QueryShape for #shape {
            const NAMES: &'static [&'static str] = &[#(#texts),*];

            fn set(&mut self, place: usize, text: &str) -> Result<(), String> {
                match place {
                    #(#set)*
                    _ => {}
                }
                Ok(())
            }

            #[cfg(feature = "client")]
            fn given(&self) -> Vec<(&'static str, String)> {
                let mut given = Vec::new();
                #(#given)*
                given
            }

            fn parameters() -> Vec<(&'static str, ::serde_json::Value)> {
                vec![#(#parameters),*]
            }
        }
    })
}

/// Takes the attribute `is` off a field.
fn member(field: &mut Field) -> Result<Member> {
    let name =
        field.ident.clone().ok_or_else(|| syn::Error::new(Span::call_site(), "a shape has named members"))?;
    let (mut kind, mut has_default, mut is_flat) = (quote!(crate::field::ByType), false, false);
    for attribute in field.attrs.extract_if(.., |attribute| attribute.path().is_ident("is")) {
        for argument in attribute.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated)? {
            match &argument {
                Expr::Path(path) if path.path.is_ident("default") => has_default = true,
                Expr::Path(path) if path.path.is_ident("flat") => is_flat = true,
                expression => kind = quote!(#expression),
            }
        }
    }
    let (inner, presence) = if let Some(inner) = within("Option", &field.ty) {
        (inner.clone(), Presence::Optional)
    } else if let Some(inner) = within("Patch", &field.ty) {
        (inner.clone(), Presence::Patch)
    } else {
        (field.ty.clone(), Presence::Always)
    };
    let description = description(&field.attrs);
    Ok(Member { name, presence, has_default, is_flat, inner, kind, description })
}

impl Member {
    /// Its name in JSON.
    fn text(&self) -> String {
        self.name.unraw().to_string()
    }
}

/// The type within an `Option` or a `Patch`.
fn within<'a>(outer: &str, of: &'a Type) -> Option<&'a Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == outer)?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(syn::GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

fn serde_attributes(shape: &Ident, member: &Member) -> Vec<Attribute> {
    if member.is_flat {
        return vec![syn::parse_quote!(#[serde(flatten)])];
    }
    let (read, write) = helper_names(&member.name);
    let (read, write) = (format!("{shape}::{read}"), format!("{shape}::{write}"));
    let mut all = vec![syn::parse_quote!(#[serde(deserialize_with = #read, serialize_with = #write)])];
    match member.presence {
        Presence::Optional => {
            all.push(syn::parse_quote!(#[serde(default, skip_serializing_if = "Option::is_none")]));
        }
        Presence::Patch => {
            all.push(syn::parse_quote!(#[serde(default, skip_serializing_if = "crate::field::is_kept")]));
        }
        Presence::Always if member.has_default => all.push(syn::parse_quote!(#[serde(default)])),
        Presence::Always => {}
    }
    all
}

fn helper_names(name: &Ident) -> (Ident, Ident) {
    let name = name.unraw();
    (format_ident!("read_{name}"), format_ident!("write_{name}"))
}

/// The functions that read and write a member.
fn helpers(member: &Member) -> Tokens {
    let Member { name, inner, kind, .. } = member;
    let (read, write) = helper_names(name);
    let (of, read_value, write_value) = match member.presence {
        Presence::Optional => (
            quote!(Option<#inner>),
            quote!(crate::field::Kind::<#inner>::read(&#kind, from).map(Some)),
            quote! {
                match value {
                    Some(value) => crate::field::Kind::<#inner>::write(&#kind, value, to),
                    None => to.serialize_none(),
                }
            },
        ),
        Presence::Patch => (
            quote!(::stockhold_domain::Patch<#inner>),
            quote!(crate::field::read_patch(&#kind, from)),
            quote!(crate::field::write_patch(&#kind, value, to)),
        ),
        Presence::Always => (
            quote!(#inner),
            quote!(crate::field::Kind::<#inner>::read(&#kind, from)),
            quote!(crate::field::Kind::<#inner>::write(&#kind, value, to)),
        ),
    };
    quote! {
        fn #read<'de, D: ::serde::Deserializer<'de>>(from: D) -> Result<#of, D::Error> {
            #read_value
        }

        #[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the member")]
        fn #write<S: ::serde::Serializer>(value: &#of, to: S) -> Result<S::Ok, S::Error> {
            #write_value
        }
    }
}

/// The statement that adds a member to the schema.
fn listed(member: &Member) -> Tokens {
    let Member { inner, kind, description, has_default, .. } = member;
    let is_optional = member.presence != Presence::Always;
    if member.is_flat {
        return quote! {
            members.extend(<#inner as crate::field::ObjectShape>::members(part.of_flat(#is_optional)));
        };
    }
    let name = member.text();
    let schema = quote!(crate::field::Kind::<#inner>::schema(&#kind, #description));
    let schema = match member.presence {
        Presence::Patch => quote!(crate::openapi::schema::nullable(#schema)),
        Presence::Optional | Presence::Always => schema,
    };
    quote! {
        members.push(crate::field::MemberSchema {
            name: #name,
            schema: #schema,
            is_required: part.requires(#is_optional, #has_default),
        });
    }
}

/// The doc comment as one text. An empty line begins a paragraph.
fn description(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if is_doc(&pair.path) => match &pair.value {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(LitStr::value(text)),
            _ => None,
        },
        _ => None,
    });
    let mut text = String::new();
    for line in lines {
        let line = line.trim();
        if line.is_empty() {
            text.push_str("\n\n");
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text
}

fn is_doc(path: &Path) -> bool {
    path.is_ident("doc")
}
